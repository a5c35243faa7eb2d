"""The rules: one class and one reason for every program that is known.

commands.txt      the class of each command, and what its options mean: most programs need no more
table.py          the file read, and a command looked up in it
registry.py       which rule checks which program
shell.py wrappers.py interpreters.py files.py finding.py git.py network.py environment.py
                  programs whose arguments need more than a table
local_services.py clients that talk to the sandbox itself, or to a service on an attached network
"""
