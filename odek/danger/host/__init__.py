"""What runs on the host without a question: only what is understood to its last word.

The rules elsewhere in danger/ know what is bad, and say which class a command has. Here it is the other way
round: a program, an option, an operand, a variable, a place that is not listed makes the command `unknown`.

rule.py       one simple command: understood, or why not; start here
forms.py      programs whose words need more than a row
table.py      the rows of programs.txt: which options and operands of which program
kinds.py      what an operand or the value of an option must be
obeyed.py obeyed.txt    files of the project that a program obeys
places.py     where a path really leads, and what lies there
checkout.py   git: in this checkout alone
variables.py  the variables that may be set
awk.py        programs of awk
programs.txt  the table itself
"""
