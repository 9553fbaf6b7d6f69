//go:build race

package test

// raced reports whether the race detector runs, which makes lives and scenarios ten times as expensive. Without it, .ci/run runs what is
// left out then, and make campaign more.
const raced = true

const chaosDefault = 1
