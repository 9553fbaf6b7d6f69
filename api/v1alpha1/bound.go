package v1alpha1

import (
	"maps"
	"slices"
)

// Bound truncates each list of the spec that exceeds its bound, to one entry more than the bound: Validate still refuses the list, and the
// server neither reads nor keeps the rest. Only groups that bypassed the CRD's schema have such lists.
func (g *VmGroup) Bound() {
	s := &g.Spec
	cut(&s.Adopt, MaxListed)
	cut(&s.Replace, MaxListed)
	cut(&s.ScaleIn.Protected, MaxListed)
	cut(&s.ScaleIn.Remove, MaxListed)
	cut(&s.Update.Windows, MaxWindows)
	for i := range s.Update.Windows {
		cut(&s.Update.Windows[i].Days, len(Weekdays))
	}
	cut(&s.Placement.Zones, MaxZones)
	if s.Placement.HostGroup != nil {
		cut(&s.Placement.HostGroup.Names, MaxHostGroups)
	}
	cut(&s.Tags, MaxMarks)
	cutMap(&s.CustomAttributes, MaxMarks)
	cutMap(&s.ExtraConfig, MaxMarks)
	cut(&s.Disks, MaxDisks)
	cut(&s.Hardware.PCIDevices, MaxPCIDevices)
	cut(&s.Networks, MaxNetworks)
	for i := range s.Networks {
		n := &s.Networks[i]
		cut(&n.Nameservers, MaxNameservers)
		cut(&n.SearchDomains, MaxNameservers)
		for _, a := range []*Addresses{n.IPv4, n.IPv6} {
			if a != nil {
				cut(&a.Ranges, MaxRanges)
				cut(&a.AdditionalRanges, MaxAdditionalRanges)
			}
		}
	}
	if s.Readiness.HTTPGet != nil {
		cut(&s.Readiness.HTTPGet.HTTPHeaders, MaxProbeHeaders)
	}
	if s.Service != nil {
		cut(&s.Service.Ports, MaxServicePorts)
		cutMap(&s.Service.Annotations, MaxServiceAnnotations)
	}
}

// cut copies the first entries, so that the rest of the list can be freed.
func cut[E any](list *[]E, most int) {
	if len(*list) > most {
		*list = slices.Clone((*list)[:most+1])
	}
}

// cutMap keeps the entries whose names sort first, so that equal specs stay equal.
func cutMap(all *map[string]string, most int) {
	if len(*all) <= most {
		return
	}
	kept := make(map[string]string, most+1)
	for _, name := range slices.Sorted(maps.Keys(*all))[:most+1] {
		kept[name] = (*all)[name]
	}
	*all = kept
}
