# Read after Python's own Makefile, in its folder: links the portable odek (build/portable.py).
# OWN is this folder, FROZEN what freeze.py wrote, PROGRAM the result.
odek-program:
	$(CC) -c $(PY_CORE_CFLAGS) -I$(FROZEN) -o $(FROZEN)/main.o '$(OWN)/main.c'
	$(CC) -c $(PY_CORE_CFLAGS) -I$(FROZEN) -o $(FROZEN)/table.o $(FROZEN)/frozen.c
	cd $(FROZEN) && $(CC) -c -o code.o frozen.s
	$(LINKCC) $(PY_CORE_LDFLAGS) -Wl,--gc-sections -Wl,--wrap=setlocale -s -o $(PROGRAM) $(FROZEN)/main.o $(FROZEN)/table.o $(FROZEN)/code.o \
		$(LINK_PYTHON_OBJS) $(LIBS) $(MODLIBS) $(SYSLIBS)
	rm $(FROZEN)/main.o $(FROZEN)/table.o $(FROZEN)/code.o
.PHONY: odek-program
