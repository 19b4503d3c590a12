// Package bench measures requests, times and memory against the lab. All its tests have the build
// tag bench.
package bench
