package tell

import (
	"cmp"
	"fmt"
)

// leftBehind names the VMs that vCenter, or else the stored status, shows of a group.
func (d *Decision) leftBehind() (left []string) {
	for m := range d.vms() {
		left = append(left, fmt.Sprintf("%s (%s)", m.VM.Name, m.MoRef))
	}
	for i := range d.NotFound {
		left = append(left, fmt.Sprintf("%s (%s)", d.NotFound[i].NameInVCenter(), d.NotFound[i].MoRef))
	}
	standby, quarantined := d.NotFoundStandby, d.NotFoundQuarantined
	if !d.VCenterKnown {
		standby, quarantined = d.Group.Status.Standby, d.Group.Status.Quarantined
		for _, m := range d.Group.Status.Members {
			left = append(left, fmt.Sprintf("%s (%s)", m.NameInVCenter(), m.MoRef))
		}
	}
	for _, m := range standby {
		left = append(left, fmt.Sprintf("%s (%s)", cmp.Or(m.VMName, m.Name), m.MoRef))
	}
	for _, q := range quarantined {
		left = append(left, fmt.Sprintf("%s (%s)", q.Name, q.MoRef))
	}
	return left
}
