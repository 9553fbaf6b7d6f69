package vsphere

import (
	"strings"
	"testing"
)

func TestRoomWarnsOfWhatIsKnownToBeTooLittle(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	hosts := []hostRoom{{cpu: 16, memory: 64 * gib}, {cpu: 32, memory: 128 * gib}}
	need := memberNeed{cpu: 2, memory: 8 * gib, disk: 18 * gib}
	for name, c := range map[string]struct {
		room          Room
		members, more int
		want          string // of the only warning; empty: none
	}{
		"nothing is known":          {Room{need: memberNeed{cpu: 99, memory: 999 * gib, reserved: 999 * gib, disk: 999 * gib}}, 9, 9, ""},
		"enough":                    {Room{need: need, hosts: hosts, pool: poolRoom{memory: 192 * gib, unreserved: 192 * gib}, datastore: datastoreRoom{"ds", 54 * gib}}, 3, 3, ""},
		"one more than free space":  {Room{need: need, hosts: hosts, datastore: datastoreRoom{"ds", 53 * gib}}, 3, 3, "3 more take up to 54 GiB for disks and swap files, and the datastore ds has 53 GiB free"},
		"a full datastore":          {Room{need: need, hosts: hosts, datastore: datastoreRoom{"ds", 0}}, 3, 1, "1 more take up to 18 GiB"},
		"none more":                 {Room{need: need, hosts: hosts, datastore: datastoreRoom{"ds", 0}}, 3, 0, ""},
		"too many CPUs":             {Room{need: memberNeed{cpu: 33}, cluster: "C0", hosts: hosts}, 1, 1, "a member has 33 CPUs, and the largest host of C0 has 32 logical CPUs"},
		"a member is too large":     {Room{need: memberNeed{memory: 129 * gib}, cluster: "C0", hosts: hosts}, 1, 1, "a member has 129 GiB of memory, and the largest host of C0 has 128 GiB"},
		"all are too large":         {Room{need: need, cluster: "C0", hosts: hosts}, 25, 1, "25 members have 200 GiB of memory together, and the hosts of C0 have 192 GiB"},
		"the limit of the pool":     {Room{need: need, cluster: "C0", hosts: hosts, pool: poolRoom{"web", 16 * gib, 16 * gib}}, 3, 1, "3 members have 24 GiB of memory together, and the VMs of the resource pool web of C0 can have 16 GiB"},
		"reserved by others":        {Room{need: memberNeed{memory: 8 * gib, reserved: 8 * gib}, cluster: "C0", hosts: hosts, pool: poolRoom{"web", 100 * gib, 15 * gib}}, 2, 2, "2 more reserve 16 GiB of memory, and the resource pool web of C0 has 15 GiB to reserve"},
		"nothing more is reserved":  {Room{need: memberNeed{memory: 8 * gib, reserved: 8 * gib}, hosts: hosts, pool: poolRoom{"web", 100 * gib, 0}}, 2, 0, ""},
		"a pool without its limits": {Room{need: memberNeed{memory: 8 * gib, reserved: 8 * gib}, hosts: hosts}, 2, 2, ""},
	} {
		var got []string
		for _, w := range c.room.Warnings(c.members, c.more) {
			got = append(got, w.Seen)
		}
		if len(got) > 1 || (len(got) == 1) != (c.want != "") || !strings.HasPrefix(strings.Join(got, ""), c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
