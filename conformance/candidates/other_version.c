/* A library that speaks another version of the interface. */
int h3_candidate_abi(void) { return 99; }
