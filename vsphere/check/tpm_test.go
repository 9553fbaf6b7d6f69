package check

import (
	"testing"
	"testing/synctest"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestATemplateWithATPMIsWarnedOfAndSoAreMissingPrivileges(t *testing.T) {
	t.Parallel()
	for version, seen := range map[string]string{"8.0.3.0": "each member gets a new one", "7.0.3.0": "copies to each member"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := worldOf(t, vctest.Of(t, vcsim.Config{Templates: []string{"ubuntu"}, APIVersion: version}))
				w.Must(w.AddTPM("ubuntu"))
				w.Restrict(roleIDs()...)
				r := w.checked(nil, Options{Templates: []string{"ubuntu"}})
				r.has("vTPM", Warn, seen, "")
				r.has("privilege Cryptographer.Clone", Warn, "/DC0/vm/ubuntu", "")
				r.has("privilege Cryptographer.EncryptNew", Warn, "on /DC0/vm", "")
			})
		})
	}
}
