//go:build race

package loop

// raced reports whether the race detector slows the tests down: tests over hours of virtual time then run a share.
const raced = true
