"""What a shell command may do, and whether it may: pure, it runs nothing and looks only through `Place.look`.

classify.py   command line and place to a Risk: start here
policy.py     Risk to allow, prompt or deny
regime.py     a place and its policy together, for commands and for files that tools use
explain.py    what both say of a command, as plain values
risk.py       the nine classes, findings, the verdict
paths.py look.py      whose territory a path is; what is asked of the folders themselves
contained.py  what a container keeps to itself
shell/        the language: text to a tree, words expanded; start at parser.py and expand.py
walk.py       the tree followed: branches, variables, directories, functions
host/         what runs on the host without a question: a closed table, programs.txt; start at rule.py
doubts.py     what of a command line is not understood there
dispatch.py names.py call.py options.py      a simple command to its rule
fallback.py   what is held against text that cannot be parsed
lists.py      lists of names, written as text
rules/        the rules: tables in plain, tools, services, flags; code for programs that need it
"""
