package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The disks that the spec gives to a member are in its stamp, so a member differs by what that says: a disk that it lacks is added, and
// one that is too small grows, both while it runs. One on another datastore, or made otherwise, is replaced with its member
// (cloneDifference).

// toGiveData gives a member that is off its persistent disks, before it is powered on. toSetDisks brings the disks of a member in line with the spec.
var (
	toGiveData = &concern{why: (*decision).whyData, next: (*steps).giveData}
	toSetDisks = &concern{why: (*decision).whyDisks, next: (*steps).setDisks}
)

// settingDisks: a member gets disks, or larger ones.
var settingDisks = &plan.Activity{Says: "changing the disks of %s", Noun: "member", Background: true, Busy: true, Updates: true}

func (d *decision) whyData(m *member) string {
	return textIf(d.startable(m) && d.facts.lacksData(m), "it needs its persistent disks before its "+nextPowerOn(m))
}

func (d *decision) whyDisks(m *member) string {
	return textIf(m.disks != "" && m.outdated == "" && m.nominated == "" && m.isToMatchSpec(), "disks: it "+m.disks)
}

// setDisks plans the change of disks of a member that is kept. A member that never ran is prepared first.
func (s *steps) setDisks(m *member, why string) {
	if _, later := s.stepOf[m.name]; !later {
		m.begins(settingDisks, s.setDisksOf(m, why))
	}
}

// giveData gives a member its persistent disks, before it is powered on.
func (s *steps) giveData(m *member, why string) {
	m.begins(starting, s.setDisksOf(m, why))
}
