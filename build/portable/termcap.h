/* What libedit asks of a terminal's database; see termcap.c. */
#ifndef ODEK_TERMCAP_H
#define ODEK_TERMCAP_H
int tgetent(char *buffer, const char *terminal);
int tgetflag(const char *name);
int tgetnum(const char *name);
char *tgetstr(const char *name, char **area);
char *tgoto(const char *capability, int column, int line);
int tputs(const char *text, int lines, int (*put)(int));
#endif
