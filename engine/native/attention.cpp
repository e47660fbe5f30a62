#include "parallel.h"
extern "C" void probe(long*o,int n,int t){ parallel_for(n,t,[&](long i){o[i]=i;}); }
