// SPDX-License-Identifier: Apache-2.0
#include "say.h"

#include <stdarg.h>
#include <stdio.h>

enum { LONGEST = 1024 };

static void print_text(const char *text)
{
	putchar('"');
	for (; *text != '\0'; text++)
		putchar(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? '\'' : *text);
	putchar('"');
}

void say_error(const char *code, const char *about, const char *format, ...)
{
	char text[LONGEST];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	printf("{\"event\":\"error\",\"code\":\"%s\",\"about\":", code);
	print_text(about);
	printf(",\"text\":");
	print_text(text);
	printf("}\n");
	fflush(stdout);
}

void say_event(const char *event)
{
	printf("{\"event\":\"%s\"}\n", event);
	fflush(stdout);
}
