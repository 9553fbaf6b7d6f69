package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// lostHost is a host on which vCenter can't reach members: it may be down.
type lostHost struct {
	// Name is the host's; empty if it isn't known.
	Name    string
	Members int
	// Groups are the groups of these members, at most namesAtOnce of Of.
	Groups []lostGroup
	Of     int
	// Since is when the first of them was no longer ready; zero if unknown.
	Since time.Time
}

type lostGroup struct{ Name, Link string }

// namesAtOnce is how many groups of a host are named.
const namesAtOnce = 10

// hostsOf returns the hosts on which vCenter can't reach members of groups, those with the most members first.
func hostsOf(groups []plan.Report) (all []lostHost) {
	for i := range groups {
		g := &groups[i]
		here := map[string]bool{}
		for j := range g.Members {
			m := &g.Members[j]
			if m.Reason != plan.ReasonUnreachable {
				continue
			}
			at := slices.IndexFunc(all, func(h lostHost) bool { return h.Name == m.Host })
			if at < 0 {
				at, all = len(all), append(all, lostHost{Name: m.Host})
			}
			h := &all[at]
			if since := m.LastTransitionTime.Time; !since.IsZero() && (h.Since.IsZero() || since.Before(h.Since)) {
				h.Since = since
			}
			if h.Members++; here[m.Host] {
				continue
			}
			here[m.Host] = true
			if h.Of++; h.Of <= namesAtOnce {
				h.Groups = append(h.Groups, lostGroup{g.Namespace + "/" + g.Name, groupLink(g)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b lostHost) int {
		return cmp.Or(cmp.Compare(b.Members, a.Members), strings.Compare(a.Name, b.Name))
	})
	return all
}

// served is how much a group serves, for the order of groups: the share of its members that are ready.
func served(g *plan.Report) float64 {
	desired := desiredOf(g)
	if g.Finalizing || desired == 0 {
		return 1
	}
	return min(1, float64(readyOf(g))/float64(desired))
}
