package test

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// few is how many breaks a life has at most that tries again what did not happen.
const few = 3

// jobs lists the breaks: of each method every way of failing, at a call and in a course that -campaign.seed chooses; of what changes something,
// in each course. Calls that make the group are broken in the first chapter's lives.
func (c *campaign) jobs() []job {
	r := rand.New(rand.NewPCG(*campaignSeed, 2))
	var all []job
	methods := map[string][]course{}
	for _, of := range courses() {
		for method, n := range c.learnt[of] {
			if n > c.known(of, method) {
				methods[method] = append(methods[method], of)
			}
		}
	}
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		for _, s := range kindsFor(method) {
			in := methods[method]
			if !isChange(method) {
				in = []course{in[r.IntN(len(in))]}
			}
			for _, of := range in {
				known := c.known(of, method)
				s.nth = known + 1 + r.IntN(c.learnt[of][method]-known)
				all = append(all, job{of, []strike{s}})
			}
		}
	}
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return pack(all, *campaignPacked)
}

// known is how many calls of a method make the group, in a chapter that isn't the one that breaks these.
func (c *campaign) known(of course, method string) int {
	if of.chapter == plain.chapter {
		return 0
	}
	return c.common[of][method]
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
