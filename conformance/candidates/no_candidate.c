/* A library, but no candidate. */
int h3_something_else(void) { return 0; }
