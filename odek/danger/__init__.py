"""What a shell command may do, and whether it may: pure, it runs and looks up nothing.

classify.py   command line and place to a Risk: start here
policy.py     Risk to allow, prompt or deny
explain.py    both, as plain values
risk.py       the nine classes, findings, the verdict
paths.py      whose territory a path is
lexer.py parser.py syntax.py escapes.py    shell text to a tree
walk.py scope.py expand.py braces.py       the tree to simple commands, variables and directories followed
marks.py      unknown parts of a word
names.py dispatch.py call.py options.py    a simple command to its rule
fallback.py   what is held against text that cannot be parsed
rules/        the rules: tables in plain, tools, services, flags; code for programs that need it
"""
