package planner_test

// scenarios are the small worlds. A plain run visits this many places of each, or all: where whole is set, there must be no
// more, and at least this many.
//
// The comments are from a run of all with -search.full -search.states 1000000: the number of places, where no new one appeared, or at the
// bound the number of those that were found and not visited. (Those at the bound, and those that a plain run bounds, are from when a place also
// held whether a mark was older than the last call, and whether all was to be read after a lost one: there are fewer now.) The search is
// breadth first, so it has followed every way up to a number of moves. The last four, of three members and a kill, are bounded at 4,000,000 as well, after 18 (delete), 19 (scale), 34 (resize) and 36
// (roll) moves. What is beyond is longer ways only, and the planted defects are found within 32 moves, all but two of them within 19.
var scenarios = []struct {
	scenario
	places int
	whole  bool
}{
	{scenario{edit: "scale", from: 1, to: 2, surge: 1, unmanaged: none}, 82, true},                                            // 82
	{scenario{edit: "scale", from: 1, to: 3, surge: 1, unmanaged: none}, 4_057, true},                                         // 4,057
	{scenario{edit: "scale", from: 2, to: 1, surge: 1, unmanaged: none}, 3_526, true},                                         // 3,526
	{scenario{edit: "scale", from: 3, to: 1, unavailable: 1, unmanaged: none}, 8_000, false},                                  // bound; 272,469 not visited
	{scenario{edit: "scale", from: 3, to: 2, unavailable: 1, unmanaged: none}, 3_526, true},                                   // 3,526
	{scenario{edit: "scale", from: 3, to: 2, unavailable: 1, unmanaged: none, recorded: true}, 372, true},                     // 372
	{scenario{edit: "scale", from: 3, to: 2, unavailable: 1, unmanaged: none, recorded: true, kills: 1}, 1_935, true},         // 1,935
	{scenario{edit: "scale", from: 2, to: 3, unavailable: 1, unmanaged: 2}, 6, true},                                          // 6
	{scenario{edit: "roll", from: 1, to: 1, surge: 1, unmanaged: none}, 8_000, false},                                         // bound; 467,866 not visited, at 3,000,000
	{scenario{edit: "roll", from: 2, to: 2, unavailable: 1, unmanaged: none}, 8_000, false},                                   // bound; 285,844 not visited
	{scenario{edit: "roll", from: 2, to: 2, surge: 1, unavailable: 1, unmanaged: none}, 8_000, false},                         // bound; 440,499 not visited
	{scenario{edit: "roll", from: 3, to: 3, unavailable: 1, unmanaged: none}, 8_000, false},                                   // bound; 302,083 not visited
	{scenario{edit: "resize", from: 1, to: 1, unavailable: 1, unmanaged: none}, 1_059, true},                                  // 1,059
	{scenario{edit: "resize", from: 2, to: 2, unavailable: 1, unmanaged: none}, 8_000, false},                                 // bound; 32,527 not visited
	{scenario{edit: "resize", from: 1, to: 1, surge: 1, unmanaged: none}, 8_000, false},                                       // bound; 284,342 not visited
	{scenario{edit: "resize", from: 3, to: 3, unavailable: 1, unmanaged: none}, 8_000, false},                                 // bound; 281,688 not visited
	{scenario{edit: "delete", from: 1, to: 1, unavailable: 1, unmanaged: none}, 8_000, false},                                 // 374,562
	{scenario{edit: "delete", from: 2, to: 2, unavailable: 1, unmanaged: none}, 8_000, false},                                 // bound; 186,953 not visited
	{scenario{edit: "delete", from: 3, to: 3, unavailable: 1, unmanaged: none}, 8_000, false},                                 // bound; 456,151 not visited
	{scenario{edit: "delete", from: 1, to: 1, unavailable: 1, unmanaged: anotherName}, 8_000, false},                          // bound; 46,531 not visited
	{scenario{edit: "delete", from: 2, to: 2, unavailable: 1, unmanaged: anotherName}, 8_000, false},                          // bound; 269,253 not visited
	{scenario{edit: "retain", from: 1, to: 1, unavailable: 1, unmanaged: none}, 3_677, true},                                  // 3,677
	{scenario{edit: "retain", from: 2, to: 2, unavailable: 1, unmanaged: none}, 8_000, false},                                 // 49,654
	{scenario{edit: "scale", from: 2, to: 1, surge: 1, unmanaged: none, kills: 1}, 8_000, false},                              // bound; 149,415 not visited
	{scenario{edit: "scale", from: 1, to: 2, surge: 1, unmanaged: none, kills: 1}, 450, true},                                 // 450
	{scenario{edit: "roll", from: 1, to: 1, surge: 1, unmanaged: none, kills: 1}, 8_000, false},                               // bound; 271,858 not visited
	{scenario{edit: "roll", from: 2, to: 2, unavailable: 1, unmanaged: none, kills: 1}, 8_000, false},                         // bound; 327,526 not visited
	{scenario{edit: "resize", from: 1, to: 1, unavailable: 1, unmanaged: none, kills: 1}, 5_071, true},                        // 5,071
	{scenario{edit: "resize", from: 2, to: 2, unavailable: 1, unmanaged: none, kills: 1}, 8_000, false},                       // bound; 281,868 not visited
	{scenario{edit: "delete", from: 1, to: 1, unavailable: 1, unmanaged: none, kills: 1}, 8_000, false},                       // bound; 159,251 not visited
	{scenario{edit: "delete", from: 2, to: 2, unavailable: 1, unmanaged: none, kills: 1}, 8_000, false},                       // bound; 318,443 not visited
	{scenario{edit: "delete", from: 1, to: 1, unavailable: 1, unmanaged: anotherName, kills: 1}, 8_000, false},                // bound; 241,837 not visited
	{scenario{edit: "retain", from: 1, to: 1, unavailable: 1, unmanaged: none, kills: 1}, 8_000, false},                       // 32,970
	{scenario{edit: "retain", from: 2, to: 2, unavailable: 1, unmanaged: none, kills: 1}, 8_000, false},                       // 417,340
	{scenario{edit: "scale", from: 1, to: 2, surge: 1, standby: 1, unmanaged: none}, 2_507, true},                             // 2,507
	{scenario{edit: "scale", from: 1, to: 2, surge: 1, standby: 1, unmanaged: none, kills: 1}, 8_000, false},                  // 15,861
	{scenario{edit: "scale", from: 2, to: 1, unavailable: 1, standby: 1, unmanaged: none, inOrder: true}, 8_000, false},       // bound; 488,922 not visited
	{scenario{edit: "roll", from: 1, to: 1, surge: 1, standby: 1, unmanaged: none}, 8_000, false},                             // bound; 509,743 not visited
	{scenario{edit: "roll", from: 1, to: 1, surge: 1, standby: 1, unmanaged: none, kills: 1, inOrder: true}, 8_000, false},    // bound; 458,184 not visited, 14 moves cut
	{scenario{edit: "resize", from: 1, to: 1, unavailable: 1, standby: 1, unmanaged: none}, 8_000, false},                     // bound; 214,741 not visited
	{scenario{edit: "retain", from: 1, to: 1, unavailable: 1, standby: 1, unmanaged: none}, 8_000, false},                     // bound; 145,332 not visited
	{scenario{edit: "delete", from: 1, to: 1, unavailable: 1, standby: 1, unmanaged: none, kills: 1}, 8_000, false},           // bound; 292,895 not visited
	{scenario{edit: "scale", from: 3, to: 1, unavailable: 1, unmanaged: none, inOrder: true}, 8_000, false},                   // bound; 193,882 not visited
	{scenario{edit: "scale", from: 3, to: 2, unavailable: 1, unmanaged: none, inOrder: true}, 2_228, true},                    // 2,228
	{scenario{edit: "scale", from: 2, to: 1, surge: 1, unmanaged: none, kills: 2, inOrder: true}, 8_000, false},               // bound; 130,406 not visited
	{scenario{edit: "roll", from: 1, to: 1, surge: 1, unmanaged: none, kills: 1, inOrder: true}, 8_000, false},                // 77,089
	{scenario{edit: "roll", from: 2, to: 2, unavailable: 1, unmanaged: none, inOrder: true}, 8_000, false},                    // bound; 28,973 not visited
	{scenario{edit: "roll", from: 3, to: 3, unavailable: 1, unmanaged: none, inOrder: true}, 8_000, false},                    // bound; 171,397 not visited
	{scenario{edit: "resize", from: 2, to: 2, unavailable: 1, unmanaged: none, inOrder: true}, 8_000, false},                  // 288,524
	{scenario{edit: "resize", from: 3, to: 3, unavailable: 1, unmanaged: none, inOrder: true}, 8_000, false},                  // bound; 212,642 not visited
	{scenario{edit: "delete", from: 2, to: 2, unavailable: 1, unmanaged: none, inOrder: true}, 8_000, false},                  // bound; 165,831 not visited
	{scenario{edit: "delete", from: 3, to: 3, unavailable: 1, unmanaged: none, inOrder: true}, 8_000, false},                  // bound; 449,360 not visited
	{scenario{edit: "delete", from: 2, to: 2, unavailable: 1, unmanaged: anotherName, kills: 1, inOrder: true}, 8_000, false}, // bound; 364,947 not visited
	{scenario{edit: "retain", from: 2, to: 2, unavailable: 1, unmanaged: none, kills: 1, inOrder: true}, 8_000, false},        // 295,908
	{scenario{edit: "scale", from: 2, to: 3, surge: 1, unmanaged: none}, 82, true},                                            // 82
	{scenario{edit: "scale", from: 2, to: 3, surge: 1, unmanaged: none, kills: 1}, 450, true},                                 // 450
	{scenario{edit: "scale", from: 1, to: 3, surge: 1, unmanaged: none, kills: 1}, 8_000, false},                              // 43,677
	{scenario{edit: "scale", from: 3, to: 1, unavailable: 1, unmanaged: none, kills: 1, inOrder: true}, 8_000, false},         // bound; 381,113 not visited
	{scenario{edit: "roll", from: 3, to: 3, unavailable: 1, unmanaged: none, kills: 1, inOrder: true}, 8_000, false},          // bound; 178,091 not visited
	{scenario{edit: "resize", from: 3, to: 3, unavailable: 1, unmanaged: none, kills: 1, inOrder: true}, 8_000, false},        // bound; 270,914 not visited
	{scenario{edit: "delete", from: 3, to: 3, unavailable: 1, unmanaged: none, kills: 1, inOrder: true}, 8_000, false},        // bound; 479,239 not visited
}
