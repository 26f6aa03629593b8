// SPDX-License-Identifier: Apache-2.0
//
// What the receiver says to flowcheck-net: one JSON object a line on standard output. Never called by workers.
#ifndef RECEIVER_SAY_H
#define RECEIVER_SAY_H

// {"event":"error","code":CODE,"about":ABOUT,"text":...}. The text is printf's; quotes and control characters are replaced.
__attribute__((format(printf, 3, 4))) void say_error(const char *code, const char *about, const char *format, ...);
// {"event":EVENT}
void say_event(const char *event);

#endif
