//go:build !race

package test

const raced = false

// chaosDefault is how many lives a plain `go test` runs; more are a campaign. The first one has operators; the second one has none,
// and so a promise of availability.
const chaosDefault = 2
