package test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// As with clones of a template whose /etc/machine-id isn't empty.
func TestMembersWhoseGuestsShareAnAddressAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true, IP: time.Minute}})
		g := r.serve().group("web", 3)
		g.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
		up(t, g)
		was := refs(r.members())
		r.must(r.SetIP("web-0", "10.9.9.9"))
		r.must(r.SetIP("web-2", "10.9.9.9"))
		reported := func(a metacontroller.Answer) bool {
			c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionDuplicateAddress)
			return c != nil && c.Status == "True" && strings.Contains(c.Message, "10.9.9.9 (web-0, web-2)")
		}
		until(t, g, "the shared address is reported", reported)
		time.Sleep(time.Hour)
		r.sameVMs(was)
		r.must(r.SetIP("web-2", "10.9.9.8"))
		until(t, g, "it is no longer reported", func(a metacontroller.Answer) bool { return !reported(a) })
	})
}
