package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// counts is how often each thing happened, in all lives of a campaign.
type counts struct {
	mu sync.Mutex
	of map[string]map[string]int // by kind, by name
}

func newCounts() *counts { return &counts{of: map[string]map[string]int{}} }

func (c *counts) add(kind, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[kind] == nil {
		c.of[kind] = map[string]int{}
	}
	c.of[kind][name]++
}

// sums returns the totals of all kinds, on one line.
func (c *counts) sums() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := func(kind string) (n int) {
		for _, of := range c.of[kind] {
			n += of
		}
		return n
	}
	return fmt.Sprintf("%d operations, %d breaks", total("operation"), total("break"))
}

// String returns one line for each kind, with the kind's counts.
func (c *counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(c.of)) {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(c.of[kind])) {
			parts = append(parts, fmt.Sprintf("%s %d", name, c.of[kind][name]))
		}
		fmt.Fprintf(&text, "%ss: %s\n", kind, strings.Join(parts, ", "))
	}
	return text.String()
}
