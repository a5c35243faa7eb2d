"""The rules: one class and one reason for every program that is known.

table.py      the form of the data, and how a command is looked up in it
plain.py tools.py services.py flags.py    the data
registry.py   which rule judges which program
shell.py wrappers.py interpreters.py files.py finding.py git.py network.py environment.py textcode.py
              programs whose arguments need more than a table
"""
