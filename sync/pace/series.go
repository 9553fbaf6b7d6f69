package pace

import (
	"slices"
	"time"
)

// series are the durations of actions that take about as long, without the time for which the far side says that it queued them, and
// what such an action takes at best.
//
// Where the far side does not show what it queues, actions only take longer: of those under way, best/took run (Little's law; TCP Vegas
// finds its queue so: Brakmo and Peterson, 1995). So best must outlast the climb from one shrink to the next. Otherwise the queue becomes
// the usual, and grows without end, as LEDBAT's base delay may (Ros and Welzl: Assessing LEDBAT's Delay Impact, 2013). But it must not
// last for ever: a slower datastore would be trouble for good, and whoever has known better times would give way to all others. Each
// shrink empties the queue, so what begins after it measures anew, as LEDBAT++ does by its slowdowns
// (draft-irtf-iccrg-ledbat-plus-plus). So best is the best since the shrink before the last.
//
// Single durations vary. So best is the least median of a block of actions. Too slow is a block whose median takes two fifths longer,
// or, sooner, three in a row that take twice as long. If fewer at once are as slow, it is not for their number: that is best from then on.
// How slow more at once were, those that began before the shrink tell, too: the queue may have grown behind the first that were slow, and
// the shorter one after the shrink must not seem as slow. At the floor there can't be fewer, so only blocks count. Otherwise whoever knew
// better times would stay there, below others that came later and learned in the queue what is best.
type series struct {
	block []time.Duration // the present one
	// since is when a window of theirs has shrunk last: what began before says nothing about the present number.
	since time.Time
	// best is what they took at best since the last shrink for slowness, and before between it and the one before; zero if not known.
	best, before time.Duration
	// was is what they took when they were too slow last, smoothed over those that began before the shrink; zero if they no longer are.
	was   time.Duration
	slow  int // in a row
	jumps int // how often three were, since the last block
	last  time.Time
}

const (
	// blockSize is how many actions are a block, and firstSize how many of the very first say what is best until it is full.
	blockSize, firstSize = 20, 5
	// jumpsMost is how often a window shrinks for three slow ones: before it shrinks further, a block must show that it helped.
	jumpsMost = 2
	// slowLeast is how much longer than at best an action must take to be slow, so that short ones may vary.
	slowLeast = 5 * time.Second
	// wasShare is the inverse of the weight with which one that began before the shrink counts in was, as in TCP's smoothed round-trip time
	// (RFC 6298, section 2).
	wasShare = 8
)

// slower reports whether took is more than so many fifths of best.
func slower(took, best time.Duration, fifths int) bool {
	return best > 0 && took > best*time.Duration(fifths)/5 && took-best > slowLeast
}

// tooSlow is for actions and blocks, farTooSlow for three in a row.
func tooSlow(took, best time.Duration) bool    { return slower(took, best, 7) }
func farTooSlow(took, best time.Duration) bool { return slower(took, best, 10) }

// known is what such an action takes at best; zero if that is not known.
func (s *series) known() time.Duration {
	if s.best > 0 && (s.before == 0 || s.best < s.before) {
		return s.best
	}
	return s.before
}

// add adds the duration of an action that began then; since is when a window of its last shrank, and atFloor reports whether one can't shrink
// further. best is known before that, and usual is what they take now if that is too slow, else zero.
func (s *series) add(began, since time.Time, atFloor bool, took time.Duration) (best, usual time.Duration) {
	if since.After(s.since) {
		s.since, s.block, s.slow = since, nil, 0
	}
	if best = s.known(); began.Before(s.since) {
		if s.was > 0 {
			s.was += (took - s.was) / wasShare
		}
		return best, 0
	}
	s.block = append(s.block, took)
	switch {
	case len(s.block) == blockSize:
		usual = s.full(best)
	case len(s.block) == firstSize && best == 0:
		s.best = nth(s.block, firstSize/4) // the median of those that begin together may have been queued
	}
	if s.slow++; !farTooSlow(took, best) {
		s.slow = 0
	}
	if s.slow >= 3 && s.jumps < jumpsMost && usual == 0 && !atFloor {
		s.jumps++
		usual = took
	}
	if usual > 0 {
		s.shrunk(usual)
	}
	return best, usual
}

// full ends a block, and returns its median if that is too slow for as many as there are.
func (s *series) full(best time.Duration) (usual time.Duration) {
	m := nth(s.block, blockSize/2)
	s.block, s.jumps = nil, 0
	switch {
	case !tooSlow(m, best):
		s.was = 0
		if s.best == 0 || m < s.best {
			s.best = m
		}
	case m > s.was*3/4 && s.was > 0:
		s.best, s.before, s.was, s.slow = m, 0, 0, 0
	default:
		usual = m
	}
	return usual
}

// shrunk notes that a window shrinks because they take so long.
func (s *series) shrunk(usual time.Duration) {
	if s.best > 0 {
		s.before, s.best = s.best, 0
	}
	s.block, s.slow, s.was = nil, 0, usual
}

// lately are the last durations, the oldest first.
type lately []time.Duration

// latelyMost is how many of them are kept.
const latelyMost = 20

func (l *lately) add(took time.Duration) {
	if *l = append(*l, took); len(*l) > latelyMost {
		*l = slices.Delete(*l, 0, 1)
	}
}

// middle is their median; zero if there are none.
func (l lately) middle() time.Duration {
	if len(l) == 0 {
		return 0
	}
	return nth(l, len(l)/2)
}

func nth(all []time.Duration, i int) time.Duration { return slices.Sorted(slices.Values(all))[i] }
