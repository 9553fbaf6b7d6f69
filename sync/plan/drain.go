package plan

import (
	"encoding/json"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// A member that is to be removed, or power-cycled for its size, is marked first. From then on its endpoints say that it is
// terminating, and for spec.service.drainSeconds nothing is done to it. A member that is not ready gets no traffic, and is not
// waited for.
//
// The time counts from when an EndpointSlice was observed that shows the endpoint terminating: Kubernetes learns of a mark only with
// the next hook call, and Metacontroller writes when it gets to it. The next answer records that time in an annotation of the
// slice, so a restart of the server, or another replica, goes on with it. Of an endpoint that nobody is led to, it counts from the mark.

func (o *Observed) drainTime() time.Duration {
	if o.Group.Spec.Service == nil {
		return 0
	}
	return seconds(&o.Group.Spec.Service.DrainSeconds, 0)
}

// drained reports whether a member that is to go may be taken down.
func (v *view) drained(m *member) bool {
	drain := v.drainTime()
	if drain == 0 || !m.ready || v.halting(m) {
		return true
	}
	since, shown := v.terminatingSince(m)
	switch {
	case !shown: // the next hook call may bring it
		v.wakeAt(v.Now.Add(time.Second))
		return false
	case since.IsZero(): // an older server marked it, and nobody is led to it
		return true
	}
	over := since.Add(drain)
	v.wakeAt(over)
	return !v.Now.Before(over)
}

// drainsAll reports whether a group is deleted and its members are drained: its children stay until that is over. Members
// that are retained go on serving those who know their addresses.
func (v *view) drainsAll() bool {
	if !v.Finalizing || v.drainTime() == 0 || v.policy.retain {
		return false
	}
	if !v.sighted { // until vCenter is known again, nobody is taken down; then endpoints that are still there are drained
		for key := range v.Children {
			if key.Kind == KindEndpointSlice {
				return true
			}
		}
		return false
	}
	waits := false
	for i := range v.members {
		waits = !v.drained(&v.members[i]) || waits
	}
	return waits
}

// terminating reports whether a member's endpoints say so.
func (v *view) terminating(m *member) bool { return m.Marked || v.Finalizing && !v.paused() }

// terminatingSince is since when all endpoints of a member are known to be terminating; shown is false while one is not. Where
// nobody is led to it, since is when it was chosen to go; zero if that is not known.
func (v *view) terminatingSince(m *member) (since time.Time, shown bool) {
	chosen := v.chosenSince(m)
	if since = chosen; v.invalid != nil { // nothing is made from such a spec, so nothing is shown
		return since, true
	}
	p := published{ordinal: m.Ordinal, ips: m.IPs}
	for _, family := range families {
		if p.address(family.addressType == "IPv4") == "" {
			continue
		}
		key := v.sliceKey(family.name, m.Ordinal)
		e, is := v.Children[key].Endpoints[m.name]
		switch {
		case is && (!e.Terminating || !v.recorded(e.Since, chosen)):
			return since, false
		case is && e.Since.After(since):
			since = e.Since
		case !is && !v.Finalizing && v.serviceIsOurs() && !v.conflicts(key): // it is about to be shown
			return since, false
		}
	}
	return since, true
}

// chosenSince is when a member was chosen to go: not earlier than it was, for stamps and deletionTimestamps are cut to whole
// seconds. It is zero if that is not known.
func (v *view) chosenSince(m *member) time.Time {
	var since time.Time
	if m.Marked && !m.MarkedAt.IsZero() && !m.MarkedAt.After(v.Now.Add(clockSkew)) {
		since = m.MarkedAt.Add(time.Second)
	}
	if !v.Finalizing {
		return since
	}
	deleted := v.FinalizingSince
	if v.Group.DeletionTimestamp != nil && !v.Group.DeletionTimestamp.After(v.Now.Add(clockSkew)) {
		deleted = v.Group.DeletionTimestamp.Time
	}
	if deleted = deleted.Add(time.Second); since.IsZero() || deleted.Before(since) {
		return deleted
	}
	return since
}

// recorded reports whether an endpoint was recorded as terminating after its member was chosen to go: a record from before, when
// it was chosen and spared, does not count.
func (v *view) recorded(since, chosen time.Time) bool {
	return !since.IsZero() && !since.Before(chosen) && !since.After(v.Now.Add(clockSkew))
}

// terminatingRecord is what the annotation of a slice is to say: since when it shows endpoints of members as terminating. One
// that is seen so for the first time is so since now, rounded up to a whole second.
func (v *view) terminatingRecord(slice ChildKey, members []published) map[string]string {
	if v.drainTime() == 0 {
		return nil
	}
	record := map[string]string{}
	for i := range members {
		m := &members[i]
		name := MemberName(v.Group.Name, m.ordinal)
		e := v.Children[slice].Endpoints[name]
		if !m.terminating || !m.serving || !e.Terminating {
			continue
		}
		since := e.Since
		if !v.recorded(since, m.chosen) {
			since = v.Now.Add(time.Second - 1).Truncate(time.Second)
			if m.chosen.After(since) {
				since = m.chosen.Add(time.Second - 1).Truncate(time.Second)
			}
		}
		record[name] = since.UTC().Format(time.RFC3339)
	}
	text, err := json.Marshal(record)
	if len(record) == 0 || err != nil {
		return nil
	}
	return map[string]string{v1alpha1.AnnotationTerminatingSince: string(text)}
}

// EndpointSeen is what an observed EndpointSlice says of an endpoint.
type EndpointSeen struct {
	Terminating bool
	// Since is when it was first seen as terminating; zero if that is not recorded yet.
	Since time.Time
}

// EndpointsSeen reads what an EndpointSlice shows, from its endpoints and its annotation AnnotationTerminatingSince.
func EndpointsSeen(endpoints []Endpoint, annotation string) map[string]EndpointSeen {
	var record map[string]string
	if json.Unmarshal([]byte(annotation), &record) != nil {
		record = nil // somebody edited it: it begins anew
	}
	all := make(map[string]EndpointSeen, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		seen := EndpointSeen{Terminating: e.Conditions.Terminating}
		if before, twice := all[e.Hostname]; twice {
			seen.Terminating = seen.Terminating && before.Terminating
		}
		if since, err := time.Parse(time.RFC3339, record[e.Hostname]); err == nil && seen.Terminating {
			seen.Since = since
		}
		all[e.Hostname] = seen
	}
	return all
}
