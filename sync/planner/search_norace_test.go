//go:build !race

package planner_test

const raced = false
