package vcsim

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Counts are the things that clients keep in a vCenter: each costs it memory for as long as the session lives, so
// whoever recreates them without removing the old ones leaks.
type Counts struct {
	// Sessions are those of SOAP, RESTSessions those of REST; neither counts Admin's.
	Sessions, RESTSessions int
	// Collectors are the PropertyCollectors beside each session's own, Filters the filters in all of them.
	Collectors, Filters int
	// ListViews and ContainerViews are the views, Listed the entries in the list views.
	ListViews, ContainerViews, Listed int
}

// Counts tells what all clients but Admin keep now.
func (v *VCenter) Counts() Counts {
	keys := v.clientSessions()
	c := Counts{Sessions: len(keys), RESTSessions: v.RESTSessions()}
	for _, key := range keys {
		if s, ok := v.books.Load(key); ok {
			v.count(s.(*simulator.Session).Registry, &c)
		}
	}
	return c
}

func (v *VCenter) count(book *simulator.Registry, c *Counts) {
	own := v.objects.Get(types.ManagedObjectReference{Type: "ServiceInstance", Value: "ServiceInstance"}).(*simulator.ServiceInstance).Content.PropertyCollector
	for _, pc := range book.AllReference("PropertyCollector") {
		if pc.Reference() != own {
			c.Collectors++
		}
	}
	c.Filters += len(book.AllReference("PropertyFilter"))
	c.ContainerViews += len(book.AllReference("ContainerView"))
	for _, ref := range book.AllReference("ListView") {
		c.ListViews++
		c.Listed += v.listed(ref)
	}
}

func (v *VCenter) listed(ref mo.Reference) (n int) {
	view, ok := ref.(*simulator.ListView)
	if !ok {
		return 0
	}
	v.objects.WithLock(v.world.Context(), view, func() { n = len(view.View) })
	return n
}

// note remembers a session with its objects: the simulator shows these to none but the session's own calls. A new session
// has those that have ended forgotten.
func (v *VCenter) note(s *simulator.Session) {
	if _, known := v.books.LoadOrStore(s.Key, s); known {
		return
	}
	ctx := v.world.Context()
	v.books.Range(func(key, known any) bool {
		if s := known.(*simulator.Session); !v.world.SessionLives(ctx, s.Key, s.UserName) {
			v.books.Delete(key)
		}
		return true
	})
}
