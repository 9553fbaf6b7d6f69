package test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// step is one step of a life: its operation, and a seed for the operation's own random numbers. Because of this seed, the other steps stay the same if
// a step is left out, except for the effects of that step.
type step struct {
	n         int // its number in the script, from 0
	operation string
	dice      uint64
}

// operation is something that a user, an operator, a guest, vCenter or a replica can do in a life.
type operation struct {
	name   string
	weight int
	do     func(*life)
}

// named returns the operation that has this name.
func named(operations []operation, name string) operation {
	return operations[slices.IndexFunc(operations, func(d operation) bool { return d.name == name })]
}

// mostSteps is the number of steps of a long script.
const mostSteps = 25

// lengthOf returns the number of steps in the life of a seed. Most lives are short, and one in sixteen is long. Of 120 short lives, 23 find the planted
// defect "unbounded"; of 120 long lives, which take 2.6 times as long, 28 find it. In equal processor time, long lives run 226 of the server's
// statements that short lives don't, and short lives run 101 that long lives don't.
func lengthOf(seed uint64) int {
	if seed%16 == 15 {
		return mostSteps
	}
	return 8
}

// script returns the steps of the life of a seed.
func script(seed uint64) (list []step) {
	operations := operationsOf(profileOf(seed))
	r, all := rand.New(rand.NewPCG(seed, 1)), 0
	for _, d := range operations {
		all += d.weight
	}
	for n := range lengthOf(seed) {
		at := r.IntN(all)
		i := slices.IndexFunc(operations, func(d operation) bool { at -= d.weight; return at < 0 })
		list = append(list, step{n: n, operation: operations[i].name, dice: r.Uint64()})
	}
	return list
}

// profile is the setup of a life. A life that is shrunk keeps its profile.
type profile struct {
	// peaceful: no operator intervenes, no guest fails and no stale parent arrives, so that the promise of availability can be
	// checked.
	peaceful bool
	// up: the group is up before the first step.
	up         bool
	replicas   int
	quarantine int32
	// tools: a member is ready while its Tools run; otherwise, while it is powered on.
	tools bool
	// departing: hosts are removed from the inventory, VMs are unregistered, and vCenter is restored from backups. Such a life has no stale parents, because
	// a replica that never saw a member clones it again if the parent's status doesn't list the member (docs/design.md, known limits).
	departing bool
	// answers: a member is ready only while, in addition, its service answers.
	answers bool
	// persistent: each ordinal has a persistent disk.
	persistent bool
	// library: the group's first template is an OVF in a content library, which the server deploys.
	library bool
	// strangers: members are backed up and restored, strangers write stamps, and admins make templates of members.
	strangers bool
	// restores: etcd goes back to a backup, or a second cluster is started from one.
	restores bool
	// identities: vCenter changes instanceUuids. Such a life has no departures: a VM that leaves right after such a change is a copy when it comes
	// back (docs/design.md, known limits).
	identities bool
	// heedsRules: DRS powers no VM on where it breaks an anti-affinity rule. No such rule is mandatory then, because there are fewer hosts than members.
	heedsRules bool
	// TestCampaign sets these: the group's shape and size, and the faults.
	shape  string
	size   int32
	faults *faults
	// trouble is a lasting trouble; nil for none.
	trouble *trouble
}

func profileOf(seed uint64) profile {
	r := rand.New(rand.NewPCG(seed, 2))
	p := profile{size: 3, peaceful: seed%3 == 2, up: r.IntN(4) > 0, replicas: []int{1, 2, 2, 2, 2, 2, 2, 2, 3, 3}[r.IntN(10)],
		quarantine: []int32{0, 60, 600}[r.IntN(3)], tools: r.IntN(2) == 0, departing: seed%3 == 1, answers: r.IntN(3) == 0,
		persistent: r.IntN(4) == 0, library: r.IntN(5) == 0}
	p.trouble = troubleOf(seed, p)
	p.strangers = r.IntN(3) == 0
	p.restores = r.IntN(4) == 0 && p.trouble == nil
	p.heedsRules = r.IntN(3) == 0
	p.identities = r.IntN(4) == 0 && !p.departing
	return p
}

// operationsOf lists the operations of lives that have this profile.
func operationsOf(t profile) []operation {
	all := slices.Concat(edits, breaks, restarts, times, inGuests)
	if t.strangers {
		all = slices.Concat(all, othersWork)
	}
	if t.strangers && !t.peaceful {
		all = slices.Concat(all, templates)
	}
	if t.restores {
		all = slices.Concat(all, ofEtcd)
	}
	if t.identities {
		all = append(all, changedIdentity)
	}
	switch {
	case t.departing:
		all = slices.Concat(all, operators, guests, stops, departures)
	case !t.peaceful:
		all = slices.Concat(all, operators, guests, stops, stale)
	}
	return all
}

// noSteps is the value of -chaos.keep for a life without steps.
const noSteps = "none"

// parseKeep parses the value of -chaos.keep; nil: keep all steps.
func parseKeep(text string) (keep []int, err error) {
	switch text {
	case "":
		return nil, nil
	case noSteps:
		return []int{}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 0 || n >= mostSteps {
			return nil, fmt.Errorf("%q is not the number of a step", part)
		}
		keep = append(keep, n)
	}
	return keep, nil
}

// kept returns the steps that have these numbers, or all steps if keep is nil.
func kept(all []step, keep []int) []step {
	if keep == nil {
		return all
	}
	return slices.DeleteFunc(all, func(s step) bool { return !slices.Contains(keep, s.n) })
}

// numbers formats the numbers of steps as -chaos.keep takes them.
func numbers(list []step) string {
	if len(list) == 0 {
		return noSteps
	}
	var texts []string
	for _, s := range list {
		texts = append(texts, strconv.Itoa(s.n))
	}
	return strings.Join(texts, ",")
}
