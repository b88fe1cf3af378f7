// Package replicas tests the registry on a real group: consensus, state machine, replica and registry of three members in one
// process, over a network that can be cut, and in processes of their own that are killed. It holds no code of its own beside its
// tests.
//
// # Bugs that others had
//
// What etcd's robustness tests have on record (tests/robustness/README.md there, by its issue numbers), and three more of the kind,
// with the test of ours that shows why it does not happen here. A name without a package is of this one.
//
//	#13766 A crash under load re-applies entries: the applied index was saved apart from the effect.
//	       TestF39KilledInTheMiddleOfAnythingMembersHoldTheSameAndLoseNothing,
//	       store/mvcc.TestKilledAtAnyPointItHoldsExactlyTheEntriesUpToApplied, test/sim's planted fault "applied-apart"
//	#14370 A lone member acknowledges a write before its log is synced, and loses it in a crash.
//	       TestALoneMemberKilledInTheMiddleOfAnythingLosesNothing, test/power.TestLogSurvivesPowerCuts
//	#14571 Members that had different permissions in memory applied one entry differently.
//	       Cannot occur: apply knows no permissions. Who may write is judged before a command is proposed, and what apply looks at
//	       besides the command is part of the contents that are hashed: store/mvcc.TestRandomOperationsAgreeWithTheModel
//	#14685 A crash during defragmentation leaves a file whose applied index is ahead of its contents.
//	       TestF39Killed..., every fourth round of which is killed while files are rewritten,
//	       store/mvcc.TestCutShortCompactionOfTheFileLeavesTheOldOne
//	#15220 A progress mark overtakes events that are still on their way to the watcher.
//	       store/mvcc.TestAMarkComesAfterAllThatItMarks, store/watch.TestProgressMarksGoToTheIdleThatAskedForThem
//	#15271 After a partition a watch is given old revisions again by a member that catches up.
//	       TestAWatchDoesNotGoBackWhenItsMemberWasCutOffAndIsGivenASnapshot
//	#17247 A cached transaction makes an event come twice.
//	       store/watch.TestWhatWasReadAsHistoryIsNotRepeatedWhenPublished; what is cached here are encoded batches:
//	       hub/kv.TestWatchersOfOneRangeEachGetWhatTheyAskedFor
//	#17529 A watcher that starves falls behind a compaction and silently skips what it had yet to get.
//	       store/mvcc.TestAWatcherOvertakenByACompactionIsToldAndSkipsNothing, store/watch.TestF42ASlowWatcherEndsAndCanResume
//	#17780 A crash during compaction lets the revision go back, when the newest record was a deletion that was dropped.
//	       store/mvcc.TestRevisionStaysWhenWhatHadItIsCompacted, and the rounds of TestF39Killed... that are killed while they compact
//	#18089 A watch loses a deletion that stands where a compaction ended.
//	       store/mvcc.TestAWatchFromAnyRevisionAfterAnyCompactionIsWholeOrRefused
//	#18667 A transaction that reads at a compacted revision is applied on one member and refused on another.
//	       Cannot occur: commands look at the newest contents alone, and compaction is an entry as any other; what it leaves depends on
//	       nothing else. store/mvcc.TestF39MembersHoldEqualHashesAtEqualIndexesHoweverEntriesWereGrouped
//	#19179 A watch that begins at the revision of a compaction misses the deletion there.
//	       store/mvcc.TestAWatchFromAnyRevisionAfterAnyCompactionIsWholeOrRefused
//	#20221 A watch from a future revision is given old events or marks.
//	       Cannot occur: it is refused as ahead (TestF35MemberThatLagsSaysSoInsteadOfAnsweringFromThePast); from the next revision on it
//	       sees nothing older (store/mvcc.TestAMarkComesAfterAllThatItMarks)
//	#20418 A paused leader answers reads from the past, because a request for a read index was taken for an earlier one.
//	       Each request here has an identity of its own. test/cluster.TestF38PartitionedOldLeaderAnswersNoReadFromThePast, and the paused
//	       processes of test/chaos, whose reads porcupine judges
//
// Of the same kind, and not in that table:
//
//	#20271 A snapshot that is installed while the file is defragmented corrupts it.
//	       store/mvcc.TestFileCompactionRestoreAndCheckpointsAtOnceLeaveOneWholeFile
//	#21378 A change of leader races with a read index, and a read is answered too early.
//	       TestALoneMemberAnswersNoReadBeforeItHasAllThatItAcknowledged, test/cluster.TestReadSeesEveryWriteAcknowledgedBeforeIt
//	#18799 A transaction that fails in its middle is applied in part.
//	       store/mvcc.TestASetIsDoneWholeOrNotAtAll, store/mvcc.TestReadersAndWatchersSeeWholeSetsWhileWritesGoOn
package replicas
