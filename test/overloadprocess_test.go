//go:build unix

package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
)

// weigh reads how many goroutines the process reports, and its resident memory (the peak so far), in bytes; 0 where that is
// unknown.
func (p *processReplica) weigh() (goroutines int, rss uint64) {
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid)); err == nil {
		if kb := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status); kb != nil {
			rss, _ = strconv.ParseUint(string(kb[1]), 10, 64)
		}
	}
	if text := p.metrics(); text != nil {
		if n := regexp.MustCompile(`(?m)^go_goroutines (\d+)`).FindSubmatch(text); n != nil {
			goroutines, _ = strconv.Atoi(string(n[1]))
		}
	}
	return goroutines, rss << 10
}

// metrics are what the process reports to Prometheus; nil if it doesn't answer.
func (p *processReplica) metrics() []byte {
	for _, line := range bytes.Split([]byte(p.logged()), []byte("\n")) {
		var serving struct {
			Health string `json:"health_listen"`
		}
		if json.Unmarshal(line, &serving) != nil || serving.Health == "" {
			continue
		}
		res, err := http.Get("http://" + serving.Health + "/metrics")
		if err != nil {
			return nil
		}
		defer res.Body.Close() //nolint:errcheck // it was only read
		text, _ := io.ReadAll(res.Body)
		return text
	}
	return nil
}
