"""What a shell command may do, and whether it may: pure, it runs nothing and looks only through `Place.look`.

classify.py     command line and place to a Risk: start here
policy.py       Risk to allow, prompt or deny; for commands, for files that tools use, for `odek danger explain`
risk.py         the nine classes, findings with their scope, the verdict
paths.py        whose territory a path is
shell/          the language: text to a tree, words expanded; start at parser.py and expand.py
interpreter.py  the tree followed: branches, variables, directories, functions
doubts.py       what of a command line is not understood on the host
host/           what runs on the host without a question: a closed table, programs.txt; start at rule.py
program.py call.py options.py    a simple command to its rule
unparsed.py     what is held against text that cannot be parsed
languages.py    the small grammars of sed and jq, in which a program can do no harm
datafile.py     the data files of rules/ and host/, cut into rows
rules/          the rules: a table, commands.txt, and code for programs that need it
"""
