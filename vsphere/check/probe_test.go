package check

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestCheckReportsMembersThatTheServerMayNotAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.New(t))
		g := &v1alpha1.VmGroup{Spec: v1alpha1.VmGroupSpec{CPU: 1, Memory: 1, Template: "ubuntu", Replicas: new(int32(3))}}
		g.Namespace, g.Name, g.UID = "default", "web", "uid-web"
		g.Spec.Readiness.TCPSocket = &v1alpha1.TCPSocket{Port: 22}
		within := func(networks ...string) results {
			o := Options{Groups: []*v1alpha1.VmGroup{g}}
			for _, n := range networks {
				o.MayProbe = netip.MustParsePrefix(n).Contains
			}
			return w.checked(nil, o)
		}
		within().has("group default/web: readiness", Fail, "none becomes ready", "--probe-networks")
		within("10.0.0.0/8").only()
		g.Spec.Networks = []v1alpha1.Network{{Network: "VM Network", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.254-10.0.1.9"}, PrefixLength: 16}}}
		within("10.0.0.0/8").only()
		within("10.0.0.0/24").has("group default/web: readiness", Fail, "web-2 has the address 10.0.1.0, which the server may not ask", "--probe-networks")
	})
}
