package test

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// packed is how many breaks a life of the first round has at least, so that each kind of break of each method comes early. All later
// rounds break one call per life, or -campaign.packed.
const packed = 6

// few is how many breaks a life has at most that tries again what did not happen.
const few = 3

// alike is how many reads of each method are broken in each way in the lives of a course whose group isn't plain. What a read answers
// differs from shape to shape; what the server does when it fails hardly does. So all reads are broken in the plain group's lives only: in
// the others they would be more breaks than all there are.
const alike = 2

// jobs lists all breaks of all calls; those that make the group are broken in the first chapter's lives. Each kind of break of each
// method comes early: first one of each, then another of each, and so on.
func (c *campaign) jobs() []job {
	r := rand.New(rand.NewPCG(*campaignSeed, 2))
	rounds := map[int][]job{}
	for _, of := range courses() {
		for _, method := range slices.Sorted(maps.Keys(c.learnt[of])) {
			known := 0
			if of.chapter != plain.chapter {
				known = c.common[of][method]
			}
			for _, s := range kindsFor(method) {
				calls := r.Perm(c.learnt[of][method] - known)
				if of.shape != plain.shape && c.learnt[plain][method] > 0 && !isChange(method) {
					calls = calls[:min(len(calls), alike)]
				}
				for round, nth := range calls {
					s.nth = known + nth + 1
					rounds[round] = append(rounds[round], job{of, []strike{s}})
				}
			}
		}
	}
	var later []job
	for _, round := range slices.Sorted(maps.Keys(rounds)) {
		jobs := rounds[round]
		r.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
		if round > 0 {
			later = append(later, jobs...)
		}
	}
	return slices.Concat(pack(rounds[0], max(packed, *campaignPacked)), pack(later, *campaignPacked))
}

// pack makes lives of up to n breaks each. A life can break each call only once, so a break goes to the first life of its course that
// has room and leaves that call alone.
func pack(jobs []job, n int) (packs []job) {
	open := map[course][]*job{}
	var all []*job
	for _, j := range jobs {
		s := j.strikes[0]
		i := slices.IndexFunc(open[j.course], func(o *job) bool {
			return !slices.ContainsFunc(o.strikes, func(other strike) bool { return other.method == s.method && other.nth == s.nth })
		})
		if i < 0 {
			open[j.course] = append(open[j.course], &job{course: j.course})
			i = len(open[j.course]) - 1
			all = append(all, open[j.course][i])
		}
		o := open[j.course][i]
		if o.strikes = append(o.strikes, s); len(o.strikes) >= n {
			open[j.course] = slices.Delete(open[j.course], i, i+1)
		}
	}
	for _, o := range all {
		packs = append(packs, *o)
	}
	return packs
}
