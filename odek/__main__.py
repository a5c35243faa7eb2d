"""python -m odek"""

import sys

from odek.cli.main import start

start(sys.argv[1:])
