package retry

import (
	"slices"
	"testing"
	"time"
)

func TestEachFailureDoublesThePauseUpToItsMost(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		Backoff
		want []time.Duration // after 0, 1, 2 … failures
	}{
		{Backoff{s, 5 * s}, []time.Duration{s, s, 2 * s, 4 * s, 5 * s, 5 * s}},
		{Backoff{4 * s, 4 * s}, []time.Duration{4 * s, 4 * s, 4 * s}},
		{Backoff{9 * s, 5 * s}, []time.Duration{5 * s, 5 * s, 5 * s}},
		{Backoff{}, []time.Duration{0, 0, 0}},
	} {
		var got []time.Duration
		for failures := range tc.want {
			got = append(got, tc.After(failures))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v: got the pauses %v; want %v", tc.Backoff, got, tc.want)
		}
	}
	if got := (Backoff{10 * time.Minute, 1<<63 - 1}).After(1000); got != 1<<63-1 {
		t.Errorf("after a thousand failures: got %s; want the longest pause", got)
	}
}

func TestWhatLastsIsTriedOnceAMinuteAtMost(t *testing.T) {
	for _, tc := range []struct{ failing, pause, want time.Duration }{
		{0, time.Second, time.Second},
		{5*time.Minute - 1, time.Second, time.Second},
		{5 * time.Minute, time.Second, time.Minute},
		{time.Hour, 100 * time.Second, 100 * time.Second},
	} {
		if got := Lasting(tc.failing, tc.pause); got != tc.want {
			t.Errorf("after %s of failures, with the pause %s: got %s; want %s", tc.failing, tc.pause, got, tc.want)
		}
	}
}
