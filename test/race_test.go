//go:build race

package test

// raced reports whether the race detector runs. It makes lives and scenarios ten times as expensive, so tests leave cases out. .ci/run runs these cases
// without the detector, and make campaign runs more of them.
const raced = true

const chaosDefault = 1
