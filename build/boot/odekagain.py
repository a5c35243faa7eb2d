"""Starting the one-file odek once more, in another interpreter or in another mode; valid in every Python 3."""

import posix
import sys


def become(python, file, others, arguments):
    """Start `file` in the words of launcher.sh. Raises OSError when `python` cannot be started."""
    code = r"""import sys,zipimport as z
try:z=z.zipimporter(sys.argv[1])
except z.ZipImportError:sys.exit("odek: error: this copy of odek is damaged: "+sys.argv[1]+"\nodek: hint: get it again")
s={};exec(z.get_data(sys.argv[1]+"/odekboot.py"),s);s["start"](z)"""
    posix.execv(python, [python, "-X", "utf8", "-I", "-S", "-c", code, file, others] + arguments)


def hand_on():
    """This Python is too old: become the next one that can be started, or end with a sentence."""
    file, others = sys.argv[1:3]
    while others:
        python, _, others = others.partition(":")
        try:
            become(python, file, others, sys.argv[3:])
        except OSError:
            continue
    found = "%d.%d.%d" % tuple(sys.version_info[:3])
    sys.stderr.write("odek: error: needs Python 3.10 or newer on PATH; found %s (%s)\n" % (found, sys.executable))
    sys.exit(127)
