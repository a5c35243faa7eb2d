"""`python3 FILE`: start again as the launcher does, without the site and the environment of the caller."""

import posix
import sys

import odekagain

file = sys.argv[0] if sys.argv[0].startswith("/") else posix.getcwd() + "/" + sys.argv[0]
odekagain.become(sys.executable, file, "", sys.argv[1:])
