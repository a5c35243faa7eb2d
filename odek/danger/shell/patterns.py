"""The patterns with which the lexer cuts shell text; each matches in linear time."""

from __future__ import annotations

import re

PLAIN = re.compile(r"[^ \t\n|&;<>()\\'\"`$]+")
PLAIN_REGEX = re.compile(r"[^ \t\n()\\'\"`$]+")  # the right-hand side of =~
ESCAPES = re.compile(r"(?:\\[^\n])+")
IN_DOUBLE = re.compile(r'[^\\"`$]+')
IN_HERE = re.compile(r"[^\\`$]+")
IN_BRACES = re.compile(r"[^\\'\"`$}]+")
IN_BRACES_QUOTED = re.compile(r"[^\\\"`$}]+")
IN_ARITHMETIC = re.compile(r"[^\\'\"`$()]+")
ANSI_C = re.compile(r"((?:[^'\\]|\\[\s\S])*)'")
BACKTICK = re.compile(r"((?:[^`\\]|\\[\s\S])*)`")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ARRAY_START = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]\n]*\])?\+?=")
SPECIAL_PARAMETERS = "@*#?$!-0123456789"
PARAMETER_OPERATOR = re.compile(r":[-=?+]|[-=?+]|##?|%%?|//?|:|\^\^?|,,?|@")
VALUE_OPERATORS = (":-", ":=", ":?", ":+", "-", "=", "?", "+")
BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
OPERATOR = re.compile(r"&&|&>>|&>|&|\|\||\|&|\||;;&|;&|;;|;|<<<|<<-|<<|<&|<>|<\(|<|>>|>&|>\||>\(|>|\(|\)|\n")
POSIX_OPERATOR = re.compile(r"&&|&|\|\||\||;;|;|<<-|<<|<&|<>|<|>>|>&|>\||>|\(|\)|\n")
