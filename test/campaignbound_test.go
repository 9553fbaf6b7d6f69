package test

// How many calls a break may cost, beyond those of an unbroken life.
const (
	// A step that failed is retried, perhaps in another way: a member that can't be resized is cloned again, which is Clone, Prepare,
	// PowerOn, Mark, ShutdownGuest with its stamp, three calls to quarantine and one to destroy. (Which member goes first, and what is
	// stamped in one call, also varies a little from life to life.)
	changesAfter = 12
	// Many breaks of one life don't all cost the most: one costs 1.3 changes on average, and the costs of twenty of them, which are hardly
	// related, don't add up to more than 57 in 1,192 such lives, where this allows 81 and more.
	changesAfterMore = 3
	// After a kill, everything under way may begin again, too: one action more than the slots, two calls each.
	changesAfterKill = 2 * 5
	// A lost session is rebuilt: login, stream, first read, the placement, the watch of tasks. A new process does the same. Each step
	// that is repeated is read before and after.
	readsAfter = 120
	// Of twenty breaks some cost nearly that, and most cost little: they had 424 reads at most, where this allows 810.
	readsAfterMore = 30
)

// usual is about how many changes and reads an unbroken life makes, where none ran to learn from.
var usual = map[course][2]int{
	{"plain", scaled}: {38, 240}, {"persistent", scaled}: {71, 393}, {"rich", scaled}: {76, 333}, {"standby", scaled}: {42, 259}, {ofLibrary, scaled}: {39, 285},
	{"plain", updated}: {56, 432}, {"persistent", updated}: {78, 590}, {"rich", updated}: {114, 652}, {"standby", updated}: {70, 464}, {ofLibrary, updated}: {57, 495},
}

// bound checks that the life made few calls more than an unbroken one. (Other tests check that a settled group makes none.)
func (w *whole) bound(learnt map[string]int) {
	w.t.Helper()
	if w.t.Failed() {
		return
	}
	changes, reads := 0, 0
	if len(learnt) == 0 {
		changes, reads = -usual[w.course][0], -usual[w.course][1]
	}
	for method, n := range w.calls() {
		if isChange(method) {
			changes += n - learnt[method]
		} else {
			reads += n - learnt[method]
		}
	}
	most, n := changesAfter, len(w.struck)
	if n > 0 {
		most += changesAfter + (n-1)*changesAfterMore
	}
	for s := range w.struck {
		if s.kind == breakKilledBefore || s.kind == breakKilledAfter {
			most += changesAfterKill
		}
	}
	if changes > most {
		w.wrongf("%d more calls that change something than in an unbroken life, want at most %d", changes, most)
	}
	if most = readsAfter; n > 0 {
		most += readsAfter + (n-1)*readsAfterMore
	}
	if reads > most {
		w.wrongf("%d more calls that read than in an unbroken life, want at most %d", reads, most)
	}
}
