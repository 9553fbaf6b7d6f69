//go:build !race

package test

const raced = false

// chaosDefault is how many lives a plain `go test` runs; a campaign runs more. In the first life, operators intervene. In the second life no operator
// does, so the test also checks the promise of availability.
const chaosDefault = 2
