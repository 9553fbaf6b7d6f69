//go:build race

package test

// raced reports whether the race detector runs, which makes lives more expensive. make campaign runs without it what is
// left out then, and more.
const raced = true

const chaosDefault = 1
