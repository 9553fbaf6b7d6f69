package vcsim_test

import (
	"sync"
	"testing"

	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25/mo"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestALogoutAndReadsOfTheEventManagerDoNotWaitForEachOther(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, _ *client) {
		for range 100 {
			c := login(t, v)
			mine, err := session.NewManager(c.Client.Client).UserSession(c.ctx)
			ok(t, err)
			c.Client.Client.RoundTripper = v.Direct(mine.Key)
			var reads sync.WaitGroup
			for range 4 {
				reads.Go(func() {
					for {
						var m mo.EventManager
						if c.RetrieveOne(c.ctx, *c.ServiceContent.EventManager, []string{"latestEvent"}, &m) != nil {
							return // the session has ended
						}
					}
				})
			}
			ok(t, c.Logout(c.ctx))
			reads.Wait()
		}
	})
}
