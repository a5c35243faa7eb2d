"""The shell's language: text to a tree, words to what they may mean. Knows no risk.

lexer.py patterns.py escapes.py limits.py    text to words, within limits
parser.py reader.py words.py syntax.py       words to a tree
scope.py shape.py                            what is known of the shell's state, what a tree says by itself
expand.py braces.py marks.py                 words expanded, unknown parts marked
"""
