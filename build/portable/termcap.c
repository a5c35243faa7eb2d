/* The terminal of libedit: what every terminal of today understands (ECMA-48), so that no database is needed.
 *
 * A terminal that calls itself dumb, or nothing at all, is given no capability; libedit then moves the cursor by
 * printing the line again.
 */
#include "termcap.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
} capabilities[] = {
    {"al", "\033[L"}, {"bl", "\a"}, {"cd", "\033[J"}, {"ce", "\033[K"}, {"ch", "\033[%i%dG"},
    {"cl", "\033[H\033[2J"}, {"dc", "\033[P"}, {"dl", "\033[M"}, {"ho", "\033[H"}, {"md", "\033[1m"},
    {"me", "\033[m"}, {"nd", "\033[C"}, {"se", "\033[27m"}, {"so", "\033[7m"}, {"ue", "\033[24m"},
    {"up", "\033[A"}, {"us", "\033[4m"}, {"DC", "\033[%dP"}, {"DO", "\033[%dB"}, {"IC", "\033[%d@"},
    {"LE", "\033[%dD"}, {"RI", "\033[%dC"}, {"UP", "\033[%dA"},
    /* keys */
    {"kd", "\033[B"}, {"kl", "\033[D"}, {"kr", "\033[C"}, {"ku", "\033[A"}, {"kh", "\033[H"}, {"@7", "\033[F"},
    {"kD", "\033[3~"},
};
static int capable;

int tgetent(char *buffer, const char *terminal)
{
    (void)buffer;
    capable = terminal != NULL && *terminal != '\0' && strcmp(terminal, "dumb") != 0;
    return 1;
}

/* am: a line goes on in the next one; xn: but not before something is printed there */
int tgetflag(const char *name)
{
    return capable && (strcmp(name, "am") == 0 || strcmp(name, "xn") == 0);
}

/* used only where the kernel does not know the size */
int tgetnum(const char *name)
{
    return strcmp(name, "co") == 0 ? 80 : strcmp(name, "li") == 0 ? 24 : -1;
}

char *tgetstr(const char *name, char **area)
{
    (void)area;
    for (size_t at = 0; capable && at < sizeof capabilities / sizeof *capabilities; at++)
        if (strcmp(capabilities[at].name, name) == 0)
            return (char *)capabilities[at].text;
    return NULL;
}

/* All capabilities above have one parameter at most, and libedit gives the same number for both; %i: count from 1. */
char *tgoto(const char *capability, int column, int line)
{
    static char text[32];
    const char *mark = strchr(capability, '%');
    int from_one;

    (void)line;
    if (mark == NULL)
        return (char *)capability;
    from_one = mark[1] == 'i';
    snprintf(text, sizeof text, "%.*s%d%s", (int)(mark - capability), capability, column + from_one,
             mark + (from_one ? 4 : 2));
    return text;
}

/* Nothing is padded: no terminal of today needs time. */
int tputs(const char *text, int lines, int (*put)(int))
{
    (void)lines;
    for (; text != NULL && *text != '\0'; text++)
        put((unsigned char)*text);
    return 0;
}
