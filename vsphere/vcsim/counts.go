package vcsim

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Counts are the server-side objects of clients. Each takes up memory while its session lives, so a client that recreates them without
// removing the old ones leaks.
type Counts struct {
	// Sessions and RESTSessions are the SOAP and REST sessions without Admin's.
	Sessions, RESTSessions int
	// Collectors are the PropertyCollectors in addition to each session's default one, Filters the filters in all of them.
	Collectors, Filters int
	// ListViews and ContainerViews are the views, Listed the entries in the list views.
	ListViews, ContainerViews, Listed int
}

// Counts returns the current counts for all clients but Admin.
func (v *VCenter) Counts() Counts {
	keys := v.clientSessions()
	c := Counts{Sessions: len(keys), RESTSessions: v.RESTSessions()}
	for _, key := range keys {
		if s, ok := v.sessions.Load(key); ok {
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

// remember records a session with its objects, because the simulator shows them only to the session's own calls. It forgets sessions that
// have ended.
func (v *VCenter) remember(s *simulator.Session) {
	if _, known := v.sessions.LoadOrStore(s.Key, s); known {
		return
	}
	ctx := v.world.Context()
	v.sessions.Range(func(key, known any) bool {
		if s := known.(*simulator.Session); !v.world.SessionLives(ctx, s.Key, s.UserName) {
			v.sessions.Delete(key)
		}
		return true
	})
}
