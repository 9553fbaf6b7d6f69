package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// counts says how often what happened, in all lives of a campaign.
type counts struct {
	mu   sync.Mutex
	runs int
	of   map[string]map[string]int // by kind, by name
}

func newCounts() *counts { return &counts{of: map[string]map[string]int{}} }

func (c *counts) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
}

func (c *counts) add(kind, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[kind] == nil {
		c.of[kind] = map[string]int{}
	}
	c.of[kind][name]++
}

// String is for people.
func (c *counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text strings.Builder
	total := func(kind string) (n int) {
		for _, of := range c.of[kind] {
			n += of
		}
		return n
	}
	fmt.Fprintf(&text, "%d runs, %d deeds, %d breaks, %d violations\n", c.runs, total("deed"), total("break"), total("violation"))
	for _, kind := range slices.Sorted(maps.Keys(c.of)) {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(c.of[kind])) {
			parts = append(parts, fmt.Sprintf("%s %d", name, c.of[kind][name]))
		}
		fmt.Fprintf(&text, "%ss: %s\n", kind, strings.Join(parts, ", "))
	}
	return text.String()
}
