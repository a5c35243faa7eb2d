"""The shell's language: text to a tree, words to what they may mean. Knows no risk.

lexer.py limits.py          text to words, within limits
parser.py syntax.py         words to a tree
state.py queries.py         what is known of the shell's state, what a tree says by itself
expand.py abstract_text.py  words expanded, unknown parts marked
"""
