//go:build race

package loop

// raced reports whether the race detector slows down the tests. Tests over hours of virtual time are shorter then.
const raced = true
