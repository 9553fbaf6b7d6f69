package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

func TestLogLinesHaveMillisecondsInUTCAndDurationsInSeconds(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := (&settings{logLevel: "info", logFormat: "json"}).logger(&out)
	must.Succeed(t, err)
	log.Info().Dur("durationSeconds", 1500*time.Millisecond).Msg("done")
	var line struct {
		Time            string
		DurationSeconds float64
	}
	must.Succeed(t, json.Unmarshal(out.Bytes(), &line))
	at, err := time.Parse("2006-01-02T15:04:05.000Z", line.Time)
	if err != nil || time.Since(at).Abs() > time.Minute || line.DurationSeconds != 1.5 {
		t.Errorf("%s (%v)", out.String(), err)
	}
}

func TestAnErrorInALogLineIsBounded(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "console"} {
		var out bytes.Buffer
		log, err := (&settings{logLevel: "info", logFormat: format}).logger(&out)
		must.Succeed(t, err)
		log.Warn().Err(errors.New(strings.Repeat("東", 100_000))).Msg("failed")
		log.Warn().Err(nil).Msg("no error")
		if text := out.String(); len(text) > plan.TextMost+300 || !strings.Contains(text, "…") || !strings.Contains(text, "no error") {
			t.Errorf("%s: %d bytes", format, out.Len())
		}
	}
}
