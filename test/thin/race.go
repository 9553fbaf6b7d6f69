//go:build race

package thin

// Raced reports whether the race detector runs.
const Raced = true
